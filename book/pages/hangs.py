"""The recorded hangs, and what lab 06 finds in them."""

from labbook.labs import capture, lab, solution

from labkit.loading import load_module

lab06 = solution("lab-06")
where = lab("lab-06").path
given_text = load_module(where / "given_evidence.py").__doc__.partition("\n\n")[2].rstrip()
given_text = f"```text\n{given_text}\n```"

answers = capture("lab-06/recordings/answers.json")
runs = {number: capture(f"lab-06/recordings/{int(number):02}-0.json") for number in answers}
found = {number: lab06.diagnose_hang(evidence) for number, evidence in runs.items()}


def case(cause):
    return next(runs[number] for number, answer in answers.items() if answer["cause"] == cause)


def share(rank, looks_s):
    return (rank["cpu_s"][1] - rank["cpu_s"][0]) / (looks_s[1] - looks_s[0])


def last_line(rank):
    return rank["log"][-1].split(": ", 1)[-1]


idle, raised, order = case("idle"), case("raised"), case("circular")
address, shape, killed = case("wrong-address"), case("shape"), case("killed")
slow, sums = case("slow"), case("corrupt-link")
only_large = {size for *_, size in sums["links"]} == {65536}
failed, dead, hung = runs["14"], runs["15"], runs["17"]  # vLLM's own server
listens_at = next(
    s["local"].split(":")[0]
    for s in address["ranks"][0]["sockets"]
    if s["state"] == "LISTEN" and not s["local"].startswith("0.0.0.0")
)


def well_but_waiting(run):
    """The server calls itself well, and its log waits for a broadcast block."""
    log = "".join(run["server"]["log"])
    return run["server"]["health"] == [200, 200] and "broadcast block" in log


# What the page says, held.
healthy_though_dead = dead["ranks"][1]["exit"] == -9 and dead["server"]["health"] == [200, 200]
a_survivor_is_named = found["6"]["where"] == [0] and address["ranks"][1]["exit"] == 1
idle_in_vllm = found["17"]["cause"] == "idle" and lab06.who_is_missing(hung)[1] == "behind"
