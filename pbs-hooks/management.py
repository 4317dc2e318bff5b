# An administrator changed something; where it was the server, a queue, a node or a resource, they are read anew.

# PBS's numbers: the server, a queue, a node, a resource, and a host (pbsnodes -o).
READ = (0, 1, 3, 5, 7)


def change(event):
    if int(event.management.objtype) in READ:
        Libra().ask("nodes", **cluster())


run(change)
