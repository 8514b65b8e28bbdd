"""Findings in a defaultdict, a bill in an OrderedDict, rows as a list subclass inside.

lab: lab-04
base: solution
expect: 100
"""

from collections import Counter, OrderedDict, defaultdict

_bill = plan_bill


def plan_bill(*args, **kwargs):
    return OrderedDict(sorted(_bill(*args, **kwargs).items()))


def audit_order(order, num_stages, m):
    require(num_stages=num_stages, m=m)
    findings = defaultdict(list)
    findings["missing"], findings["unknown"], findings["repeated"] = [], [], []
    seen = Counter(map(tuple, (op for ops in order for op in ops)))
    for op, times in sorted(seen.items()):
        if times > 1:
            findings["repeated"].append(op)
        if not (op[0] in "FB" and 0 <= op[1] < num_stages and 0 <= op[2] < m):
            findings["unknown"].append(op)
    for kind in "BF":
        for stage in range(num_stages):
            for i in range(m):
                if (kind, stage, i) not in seen:
                    findings["missing"].append((kind, stage, i))
    return findings
