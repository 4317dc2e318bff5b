# A node goes down, comes back, is taken offline.

event = pbs.event()
try:
    Libra().ask("modifyvnode", node=event.vnode.name, up=is_up(event.vnode.state))
except Exception as fault:
    log("fault in modifyvnode of %s: %s" % (event.vnode.name, fault), pbs.EVENT_ERROR)
event.accept()
