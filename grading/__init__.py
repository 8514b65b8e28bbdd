"""The instructor's tool: grade untrusted submissions; `python -m grading --help`.

The instructor's process runs the pristine tests and the pristine collectives; a submission runs in
sandboxed processes and exchanges plain values with it. What a determined student could still do:

- Whether a call left its arguments as they were is told by the process in which the submission
  runs. One that forges this gains what copying its arguments gives to anybody: the tests' own
  arrays never change by it.
- Each rank has a process of its own, kept for the checks' other runs of as many ranks, so it holds
  what this rank was given and what collectives brought it, and nothing else. That two ranks do not
  signal to each other by timing or by which pages of a shared file are in memory is not proved.
- In the same ways the run on hidden numbers can tell some of them to the run that explains, whose
  words the student reads. A later hand-in could hold them: take another --secret for a second try.
- A check that draws no numbers (grading.hidden.SAME_FOR_ALL, shown on the class page) is earned by
  a table of its answers.
"""
