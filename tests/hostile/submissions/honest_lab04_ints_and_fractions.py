"""A Fraction where something is divided, an int where nothing is.

lab: lab-04
base: solution
expect: 100
"""

_bill = plan_bill


def plan_bill(tp_size, pp_size, gpus_per_node, num_layers, hidden_size, tokens, m, bytes_per_value=2):
    bill = _bill(tp_size, pp_size, gpus_per_node, num_layers, hidden_size, tokens, m, bytes_per_value)
    crossing = bill["bytes_between_nodes"]
    if tp_size <= gpus_per_node:  # no ring leaves a node: whole activations only
        crossing = int(crossing)
    return {**bill, "bytes_between_nodes": crossing, "num_nodes": int(bill["num_nodes"])}


def makespan_s(stage_s, m, hop_s=0):
    require(stage_s=stage_s, m=m, hop_s=hop_s)
    done = [[Fraction(0)] * len(stage_s) for _ in range(m)]
    for i in range(m):
        for s, seconds in enumerate(stage_s):
            here = done[i][s - 1] + hop_s if s else 0
            done[i][s] = max(here, done[i - 1][s] if i else 0) + seconds
    return Fraction(done[-1][-1])


def throughput_per_s(p, m, model_s, hop_s):
    require(m=m)
    return Fraction(m) / (latency_s(p, model_s, hop_s) + Fraction(m - 1, p) * model_s)
