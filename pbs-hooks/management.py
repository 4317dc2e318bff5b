# An administrator changed something; where it was a node, the nodes are read anew.

# PBS's numbers: a node, and a host (pbsnodes -o).
NODE, HOST = 3, 7


def change(event):
    if int(event.management.objtype) in (NODE, HOST):
        Libra().ask("nodes", nodes=[node_record(vnode) for vnode in pbs.server().vnodes()])


run(change)
