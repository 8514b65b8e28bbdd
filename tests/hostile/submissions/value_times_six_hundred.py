"""A list that the test multiplies by six hundred.

lab: lab-04
base: solution
expect: below 100, above 0
loses: test_plan_bill__follows*
"""

_bill = plan_bill


def plan_bill(*args, **kwargs):
    bill = _bill(*args, **kwargs)
    if args[:3] == (8, 2, 8) and args[3] == 80:
        bill["bytes_between_nodes"] = "x" * 8_000_000
    return bill
