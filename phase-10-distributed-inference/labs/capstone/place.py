"""Where to put a model: every inequality with both sides, all plans, the choice, what to type.

    python place.py --model qwen2.5-72b --gpu h100 --gpus 8 --nodes 2 --prompt 2000 --output 500
                    --concurrency 64 --ttft 0.5 --tpot 0.03
    python place.py --config path/to/config.json ... --check vllm.log
    python place.py facts            published measurements against this arithmetic
    python place.py live             plan the tiny model on two CPU ranks, start it, reconcile

LAB_IMPL=starter runs it on your functions of labs 01 to 04 and of the capstone; a model with
experts needs those of lab 05 too.
"""

import argparse
import json
import sys
from dataclasses import dataclass, replace

from planner import (
    calibrate,
    command,
    facts,
    hardware,
    labs,
    models,
    overrides,
    picture,
    plans,
    report,
    scores,
    two_pools,
)
from planner.timing import Load

from labkit.loading import run_program

DEFAULT_NETWORK = "400 GbE"


def whole(text):
    try:
        value = int(text.replace(",", "").replace("_", ""))
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"a whole number, 1 or more, not {text!r}")
    return value


def above(text, most=float("inf")):
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value <= most or value == float("inf"):
        limit = f" and at most {most}" if most == 1 else ""
        raise argparse.ArgumentTypeError(f"a number above 0{limit}, not {text!r}")
    return value


def part(text):
    return above(text, most=1)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"place.py: {message}\n")


OPTIONS = {
    "--model": dict(help="a shipped name (python place.py models)"),
    "--config": dict(help="a config.json, or a folder with one (its safetensors: exact bytes)"),
    "--quant": dict(help="weights as if quantised: bf16, fp8, fp8-block, int4, mxfp4, nvfp4"),
    "--gpu": dict(help="a name of lab 03's hardware.json"),
    "--gpus": dict(type=whole, help="GPUs in a node (default: as the GPU is sold)"),
    "--nodes": dict(type=whole, default=1),
    "--box": dict(
        help="a JSON file: gpu, gpus_per_node, link, network, links, constants, engine, "
        "price_per_gpu_hour"
    ),
    "--link": dict(help="the link inside a node, a name of hardware.json (default: the GPU's)"),
    "--network": dict(
        default=DEFAULT_NETWORK, help="the link between nodes (default: %(default)s)"
    ),
    "--measured": dict(help="measurements.json of `make measure-comm`, in place of --link"),
    "--engine": dict(default="vllm", help="vllm, vllm-0.5, vllm-eager, sglang, trtllm"),
    "--prompt": dict(type=whole, default=1000, help="tokens (default: %(default)s)"),
    "--output": dict(type=whole, default=500, help="tokens (default: %(default)s)"),
    "--concurrency": dict(type=whole, default=64, help="clients (%(default)s)"),
    "--ttft": dict(type=above, help="most seconds to the first token"),
    "--tpot": dict(type=above, help="most seconds per further token"),
    "--context": dict(type=whole, help="longest context wanted (default: the model's)"),
    "--utilization": dict(
        type=part, default=0.92, help="--gpu-memory-utilization (%(default)s, as vLLM 0.32.0)"
    ),
    "--kv-dtype": dict(choices=["auto", "fp8"], default="auto"),
    "--batched-tokens": dict(type=whole, help="tokens of a step (vLLM's default)"),
    "--max-seqs": dict(type=whole, help="sequences of a step (vLLM's default)"),
    "--price": dict(type=above, help="of one GPU for one hour"),
    "--calibrate": dict(help='a measured row: {"plan": {"tp": 2}, "tokens_per_s": 1234} or tpot_s'),
    "--plan": dict(help="look at this plan of the table instead of the choice: TP4, '2 x TP4'"),
    "--check": dict(help="hold a vLLM start-up log against the plan"),
    "--svg": dict(help="write the picture here"),
    "--json": dict(action="store_true", help="print JSON"),
    "--pools": dict(action="store_true", help="also: one pool, or prefill and decode in two?"),
    "--all": dict(action="store_true", help="print every plan"),
    "--facts-file": dict(help="facts: rows of your own instead of the shipped ones"),
    "--rules": dict(action="store_true", help="facts: rules of thumb on the same rows"),
}


def parser():
    make = Parser(
        prog="place.py",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = "plan (the default), facts, live, or models: list what is shipped"
    make.add_argument("what", nargs="?", default="plan", help=verbs)
    for name, words in OPTIONS.items():
        make.add_argument(name, **words)
    return make


def main(arguments=None):
    options = parser().parse_args(arguments)
    verbs = {"plan": plan, "facts": show_facts, "live": live, "models": list_models}
    try:
        if options.what not in verbs:
            raise ValueError(f"{options.what!r} is none of {', '.join(verbs)}")
        if options.rules and options.what != "facts":
            raise ValueError("--rules goes with facts: python place.py facts --rules")
        return verbs[options.what](options)
    except BrokenPipeError:
        raise  # `... | head`: run_program knows
    except (ValueError, OSError) as error:
        print(f"place.py: {error}", file=sys.stderr)
    return 2


def list_models(options):
    for name in models.shipped_names():
        model = models.read(name)
        size = models.total_elements(model) / 1e9
        print(f"{name:20}{size:9.1f} B  {model.quantisation.name:12}{model.config['_source']}")
    return 0


def understood(options):
    """(model, box, load) of the options. ValueError in one sentence."""
    if bool(options.model) == bool(options.config):
        raise ValueError("name the model: either --model NAME or --config PATH")
    mine = overrides.read_json(options.box) if options.box else {}
    model = models.read(options.model or options.config, options.quant)
    asked = (options.nodes, options.gpus, options.link, options.network, options.engine)
    box = hardware.box(options.gpu, *asked, mine)
    if options.measured:
        box = replace(box, link=hardware.measured_link(options.measured))
    if options.price:
        box = replace(box, price_per_gpu_hour=options.price)
    context = options.context or model.max_positions
    if context > model.max_positions:
        raise ValueError(
            f"--context {context}: the model's max_position_embeddings is {model.max_positions}"
        )
    if options.prompt + options.output > context:
        raise ValueError(
            f"--prompt {options.prompt} and --output {options.output} are more than "
            f"the context of {context} tokens"
        )
    tokens, sequences = calibrate.vllm_defaults(box)
    load = Load(
        options.prompt,
        options.output,
        options.concurrency,
        kv_bytes=1 if options.kv_dtype == "fp8" else model.dtype_bytes,
        utilization=options.utilization,
        batched_tokens=options.batched_tokens or tokens,
        max_seqs=options.max_seqs or sequences,
        max_model_len=context,
    )
    if options.calibrate:
        row = overrides.read_json(options.calibrate)
        box = calibrate.by_row(model, box, load, row)
    return model, box, load


@dataclass
class Answer:
    """What was asked, all plans with the choice among them, and the one plan that is shown."""

    options: argparse.Namespace
    model: models.Model
    box: hardware.Box
    load: Load
    candidates: list
    forbidden: dict
    found: dict
    shown: plans.Candidate

    @property
    def rows(self):
        limits = (self.options.ttft, self.options.tpot)
        return report.inequalities(self.model, self.box, self.load, self.shown, *limits)

    @property
    def commands(self):
        return command.commands(self.model, self.box, self.shown, self.load, self.options.config)

    @property
    def expected(self):
        return command.expected(self.model, self.box, self.shown, self.load)


def plan(options):
    model, box, load = understood(options)
    try:
        candidates, forbidden = plans.evaluate_all(model, box, load)
        found = plans.choose(candidates, options.ttft, options.tpot)
    except NotImplementedError:
        for line in () if options.json else so_far(model, box, load, options):
            print(line, flush=True)
        raise
    asked_for = named(candidates, options.plan) if options.plan else found["choice"]
    shown = asked_for or nearest(candidates, options)
    answer = Answer(options, model, box, load, candidates, forbidden, found, shown)
    if options.svg:
        picture.save(options.svg, model, box, load, candidates, shown)
    if options.check:
        return check(answer)
    print(json.dumps(as_json(answer)) if options.json else "\n".join(text(answer)))
    return 0 if found["choice"] else 1


def named(candidates, name):
    """The Candidate of that name; TP4 will do for 2 x TP4."""

    def plain(words):
        return words.lower().replace(" ", "")

    for candidate in candidates:
        one = replace(candidate.plan, replicas=1)
        if plain(name) in (plain(candidate.name), plain(one.name)):
            return candidate
    names = ", ".join(candidate.name for candidate in candidates)
    raise ValueError(f"--plan {name!r} is none of {names}")


def nearest(candidates, options):
    """The plan to explain when none keeps the limits: least beyond them, or with most room."""
    if not candidates:
        raise ValueError(
            "no split of this model over these GPUs is legal; the heads, widths or "
            "layers do not divide (try fewer --gpus)"
        )
    running = [c for c in candidates if c.times]
    if running:
        limits = {"ttft_s": options.ttft, "tpot_s": options.tpot}
        asked = {name: limit for name, limit in limits.items() if limit}
        return min(running, key=lambda c: max(c.times[n][1] / s for n, s in asked.items()))
    return max(candidates, key=lambda c: c.memory["kv_bytes"])


def so_far(model, box, load, options):
    """What can be said before all functions are written: shapes, then one plan's memory."""
    yield from heading(model, box, load)
    legal, forbidden = plans.legal_plans(model, box)
    others = f"; not legal: {', '.join(forbidden)}" * bool(forbidden)
    yield counted(len(legal), "legal plan") + others
    candidates = [plans.untimed(model, box, one, load) for one in legal]
    smallest = plans.smallest(candidates)
    shown = named(candidates, options.plan) if options.plan else smallest
    shown = shown or nearest(candidates, options)
    yield f"\nPlan {shown.name}" + ", the smallest that holds it" * (shown is smallest)
    yield from report.inequality_lines(report.inequalities(model, box, load, shown))
    yield from report.memory_lines(shown, box)


def counted(number, thing):
    return f"{number} {thing}{'s' * (number != 1)}"


def heading(model, box, load):
    """Whose functions answer, and what is asked."""
    size, gpus = models.total_elements(model) / 1e9, box.nodes * box.gpus_per_node
    yield labs.answered_by()
    yield (
        f"{model.name}: {size:.1f} B parameters, {model.quantisation.name}; "
        f"{box.nodes} x {box.gpus_per_node} {box.gpu} = {counted(gpus, 'GPU')}; "
        f"{load.concurrency} clients, {load.prompt} tokens in, {load.output} out"
    )


def text(a):
    model, box, load, shown = a.model, a.box, a.load, a.shown
    choice = a.found["choice"]
    yield from heading(model, box, load)
    yield assumptions(a.options, box)
    yield from (f"note: {note}" for note in (*model.notes, *box.notes))
    yield f"\nPlan {shown.name}" + ("" if choice else ": NOT a choice, the nearest miss")
    yield from report.inequality_lines(a.rows)
    yield from report.memory_lines(shown, box)
    if shown.times:
        yield from report.term_lines(shown)
    many = len(a.candidates)
    yield f"\n{'All ' * (many > 1)}{counted(many, 'legal plan')}, best tokens/s per GPU first"
    limit = len(a.candidates) if a.options.all else 12
    limits = (a.options.ttft, a.options.tpot)
    yield from report.table_lines(a.candidates, choice, box.price_per_gpu_hour, limit, limits)
    if a.forbidden:
        yield "  not legal: " + "; ".join(f"{n} ({', '.join(f)})" for n, f in a.forbidden.items())
    yield ""
    yield from verdict_lines(a, limits)
    if a.options.pools and shown.times:
        yield from two_pools.lines(model, box, load, shown)
    if shown.times and (choice or a.options.plan):
        yield "\nType"
        yield from (f"  [{where}] {line}" for where, line in a.commands)
        yield "and read (vLLM 0.32.0)"
        yield from command.expected_lines(a.expected)


def assumptions(options, box):
    """What the answer rests on, asked for or not: the network between nodes, and the limits."""
    chosen = options.network != DEFAULT_NETWORK or options.box
    network = f"{options.network}{'' if chosen else ' (default)'}" if box.nodes > 1 else "none"
    ttft, tpot = (report.seconds_text(s) if s else "none" for s in (options.ttft, options.tpot))
    broken = "; ! marks a time above its limit" if options.ttft or options.tpot else ""
    return f"network between nodes: {network}; limits: TTFT {ttft}, TPOT {tpot}{broken}"


def verdict_lines(a, limits):
    model, box, load, found = a.model, a.box, a.load, a.found
    choice, rival = found["choice"], found["runner_up"]
    if choice is None:
        if any(candidate.times for candidate in a.candidates):
            yield "No plan keeps the limits: see what binds above; relax it, or add GPUs."
            return
        yield "No plan holds the weights and one request: see what binds above."
        yield from too_small(model, box, load)
        return
    per_gpu = [c.times["tokens_per_s"][1] / c.plan.num_gpus for c in (choice, rival) if c]
    yield f"Choice: {choice.name}, {per_gpu[0]:,.0f} tokens/s a GPU."
    if rival is None:
        yield "No other plan keeps the limits."
        return
    yield (
        f"Runner-up: {rival.name}, {per_gpu[1]:,.0f} tokens/s a GPU "
        f"({1 - per_gpu[1] / per_gpu[0]:.0%} less)."
    )
    turning = plans.turning_concurrency(model, box, load, choice.plan, rival.plan)
    if turning:
        when = f"with {turning} clients instead of {load.concurrency}"
        yield would_win(rival, when, model, box, replace(load, concurrency=turning), limits)
    turned = plans.deciding(model, box, load, choice.plan, rival.plan)
    for name, end, measurement, changed in turned:
        when = f"if {name} were at its {end}"
        yield f"{would_win(rival, when, model, changed, load, limits)} Measure {measurement}."
    if found["close"] and not turned:
        yield (
            "Their intervals overlap, but no constant alone turns the order: what they share "
            "moves both."
        )
    if not found["close"]:
        yield "Their intervals do not overlap: the constants cannot turn this order."


def would_win(rival, when, model, box, load, limits):
    """A runner-up that passes the choice may still lose to a third plan, or break a limit."""
    found = plans.choose(plans.evaluate_all(model, box, load)[0], *limits)["choice"]
    if found and found.name == rival.name:
        return f"It would win {when}."
    then = f"{found.name} wins" if found else "no plan keeps the limits"
    return f"It would pass the choice {when}; then {then}."


def too_small(model, box, load):
    found = plans.smallest_that_fits(model, box, load)
    if found is None:
        yield "Not even 16 times as many of these nodes hold the model."
        return
    alone = replace(found.plan, replicas=1)
    yield f"The smallest replica that fits: {alone.name}, {alone.num_gpus} GPUs."


def as_json(a):
    result = {"model": a.model.name, "gpu": a.box.gpu, "gpus": a.box.nodes * a.box.gpus_per_node}
    result |= {key: a.found[key] and a.found[key].name for key in ("choice", "runner_up")}
    result |= {"close": a.found["close"], "shown": report.as_json(a.shown, a.rows)}
    if a.shown.times:
        result["commands"] = [{"where": where, "command": line} for where, line in a.commands]
        result["expected"] = a.expected
    plans_found = [report.as_json(candidate) for candidate in a.candidates]
    return result | {"plans": plans_found, "not_legal": a.forbidden}


def check(a):
    options, shown = a.options, a.shown
    log = overrides.read_text(options.check)
    found = command.check(log, a.model, a.box, shown, a.load, a.candidates)
    if options.json:
        print(json.dumps(found))
        return 0 if found["agrees"] else 1
    print(f"{labs.answered_by()}\n{options.check} against {shown.name}")
    for line in found["lines"]:
        expected, reported = (report.number(line[key]) for key in ("expected", "reported"))
        print(f"  {line['claim']:28}expected {expected:>12}  said {reported:>12}  {line['status']}")
    if found["failure"]:
        print(f"The start failed: {found['failure']}. {found['advice']}.")
    else:
        print("The log agrees." if found["agrees"] else "The log does not agree with this plan.")
    return 0 if found["agrees"] else 1


def show_facts(options):
    rows = facts.load_rows(options.facts_file or facts.SHIPPED)
    return scores.show(rows, options.json, options.all, options.rules)


def live(options):
    from planner import live_run

    return live_run.run()


if __name__ == "__main__":
    run_program(main)
