"""The minutes of each session: vote, explain, write, argue, close."""

sessions = [
    ("[lab 01](lab-01.md)", [10, 25, 50, 25, 10]),
    ("[lab 03](lab-03.md)", [10, 30, 45, 25, 10]),
    ("[lab 04](lab-04.md)", [10, 25, 50, 25, 10]),
    ("[lab 02](lab-02.md)", [10, 25, 50, 25, 10]),
    ("[the capstone](place.md)", [15, 15, 45, 35, 10]),
    ("[lab 05](experts.md), optional", [10, 30, 45, 25, 10]),
    ("[lab 06](hangs.md), optional", [15, 20, 50, 25, 10]),
]
labs = "lab-01 lab-03 lab-04 lab-02 lab-05 capstone lab-06".split()

# What the page says, held.
two_hours_each = all(sum(minutes) == 120 for _, minutes in sessions)
