"""Hold a vLLM start-up log against the ledger of its model.

    python startup_ledger.py LOG --config CONFIG.json [--tp N] [--pp N]
    python startup_ledger.py captures/tp2-engine/engine.log --config tiny    (a recorded one)

LOG is a file, or - for standard input. CONFIG is a Hugging Face config.json, a capture's
report.json or a name in configs/. A size without --tp or --pp is the one that the engine printed.
Exit status 1: a wrong split.
"""

import argparse
import json
import sys
from pathlib import Path

from given.startup_log import summary

from labkit.loading import answered_by, load_chosen
from labkit.table import columns

HERE = Path(__file__).resolve().parent


def ledger_lines(lab, model, tp_size, pp_size):
    """The ledger itself: one line per pipeline stage."""
    terms = ("parameters", "rope_table", "allocator_rounding", "total")
    rows = [
        ["ledger of one rank, GiB", "parameters", "rope", "rounding", "total", "KV bytes/token"]
    ]
    for stage in range(pp_size):
        weights = lab.rank_weights(model, tp_size, pp_size, stage)
        gib = [f"{weights[f'{term}_bytes'] / lab.GIB:.4f}" for term in terms]
        kv = lab.kv_bytes_per_token(model, tp_size, pp_size, stage)
        rows.append([f"  tp_size={tp_size} stage {stage} of {pp_size}", *gib, f"{kv:,}"])
    return columns(rows, "lrrrrr")


def log_lines(log):
    """What the log said about the engine, and what was found in it."""
    known = [
        f"{name}={log[name]}"
        for name in ("version", "engine", "model", "dtype", "tp_size", "pp_size", "max_model_len")
        if log[name] is not None
    ]
    several = (
        [f"{log['starts']} starts in this text; the last one counts"] if log["starts"] > 1 else []
    )
    return [f"log: {', '.join(known) or 'it names no engine'}", *several, summary(log)]


def verdict_lines(verdict):
    def number(value):
        if value is None:
            return "-"
        return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}"

    rows = [["claim", "expected", "reported", "residual"]]
    for line in verdict["lines"]:
        residual, unit = number(line["residual"]), line["unit"]
        if unit == "GiB" and line["residual"] is not None:
            residual, unit = f"{line['residual'] * 1024:+.2f}", "MiB"
        rank = "" if line["rank"] is None else f", rank {line['rank']}"
        numbers = number(line["expected"]), number(line["reported"]), residual
        rows.append([(line["claim"] + rank)[:43], *numbers, unit, line["status"], line["cause"]])
    found = f" ({'; '.join(verdict['findings'])})" if verdict["findings"] else ""
    if any(line["status"] == "coarse" for line in verdict["lines"]):
        found += ", what is coarse left aside"
        if not any(line["claim"].startswith("weights") for line in verdict["lines"]):
            found += ": nothing else here tells this model from another"
    return [*columns(rows, "lrrrlll"), "", f"verdict: {verdict['verdict']}{found}"]


def read_config(name):
    path = Path(name)
    if not path.is_file():
        path = HERE / "configs" / f"{name}.json"
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError:
        names = ", ".join(sorted(p.stem for p in (HERE / "configs").glob("*.json")))
        raise ValueError(f"no config {name!r}: give a config.json, or one of {names}") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path.name} cannot be read as JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path.name} holds no JSON object, so it is no config.json")
    return config.get("config") or config.get("text_config", config)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("log", metavar="LOG", help="a log file, or - for standard input")
    parser.add_argument(
        "--config", required=True, help="config.json, report.json, or a name in configs/"
    )
    parser.add_argument("--tp", type=int, metavar="N", help="tensor_parallel_size asked for")
    parser.add_argument("--pp", type=int, metavar="N", help="pipeline_parallel_size asked for")
    options = parser.parse_args()
    lab = load_chosen(HERE)
    try:
        model = lab.model_shape(read_config(options.config))
        raw = sys.stdin.buffer.read() if options.log == "-" else Path(options.log).read_bytes()
        log = lab.read_startup_log(raw.decode(errors="replace"))
        tp_size = options.tp or log["tp_size"] or 1
        pp_size = options.pp or log["pp_size"] or 1
        lab.check_split(model, tp_size)
        lines = [*log_lines(log), "", *ledger_lines(lab, model, tp_size, pp_size), ""]
        verdict = lab.reconcile(log, model, tp_size, pp_size)
    except (ValueError, OSError, NotImplementedError) as error:
        sys.exit(f"startup_ledger: {error}")
    print("\n".join([answered_by(HERE), *lines, *verdict_lines(verdict)]))
    sys.exit(verdict["verdict"] == "wrong split")


if __name__ == "__main__":
    main()
