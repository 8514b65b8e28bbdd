"""The published logs, each with its page."""

import re

import figures
from labbook.labs import capture


def linked(source):
    issue = re.match(r"([\w-]+/[\w-]+) issue #(\d+)", source)
    where = f"https://github.com/{issue[1]}/issues/{issue[2]}" if issue else ""
    return f"[{issue[0]}]({where}){source[issue.end() :]}" if issue else source


shipped = capture("capstone/facts.jsonl").splitlines()
rows_05 = figures.experts.given().ROWS
from_03 = len(capture("lab-03/measurements.jsonl").splitlines())
said = capture("lab-02/captures/quoted-logs/quoted.json")
rows = [
    [entry["config"], entry["tp_size"], entry["weights_gib"], linked(entry["source"])]
    for entry in said["weights"] + said["not_explained"]
]
rows += [
    [e["config"], e["tp_size"], f"cache {e['kv_memory_gib']}", linked(e["source"])]
    for e in said["cache"][:1]
]
