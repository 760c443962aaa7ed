"""Penstock beside other systems: the same files, features and transforms, in one run on one machine.

`__main__` measures: it makes datasets (the Go program beside this package), and runs each system many times, in
turns, in a process of its own (`subject`), with all processes that it starts under one account (`meter`). systems/
has one module for each system, all of which stand on `recipe`. `outputs` compares what they made, `report` and
`plots` write down what was found.
"""
