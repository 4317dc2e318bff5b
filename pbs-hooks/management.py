# An administrator changed something; where it was a node, the nodes are read anew.

event = pbs.event()
if event.management.objtype == pbs.MGR_OBJ_NODE:
    try:
        Libra().ask("nodes", nodes=[node_record(vnode) for vnode in pbs.server().vnodes()])
    except Exception as fault:
        log("fault in management: %s" % fault, pbs.EVENT_ERROR)
event.accept()
