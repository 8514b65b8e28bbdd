"""Record vLLM with two pipeline stages and 1, 2, 4 and 8 requests in flight: one start."""

from pathlib import Path

from live import model, run

from incidents.tp import SIZES

PROGRAM = Path(__file__).with_name("pp_engine.py")
ARGUMENTS = dict(
    max_num_seqs=8, max_model_len=128, max_num_batched_tokens=32, kv_cache_memory_bytes=32 * 2**20
)
IN_FLIGHT = (1, 2, 4, 8)


def record(folder, repeats):
    """{requests in flight: evidence of each repeat}."""
    config = model.tiny_llama(**SIZES)
    plan = {"tp_size": 1, "pp_size": 2, "hosts": 1, "model": config}
    report = run.run_engine(
        config,
        1,
        2,
        folder=Path(folder),
        program=PROGRAM,
        arguments=ARGUMENTS,
        more={"in_flight": IN_FLIGHT, "repeats": repeats},
    )
    return {
        count: [
            {"plan": plan, "start_up": report["start_up"], **evidence}
            for evidence in report["runs"]
            if evidence["in_flight"] == count
        ]
        for count in IN_FLIGHT
    }
