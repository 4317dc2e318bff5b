# A node goes down, comes back, is taken offline.


def change(event):
    Libra().ask("modifyvnode", node=event.vnode.name, up=is_up(event.vnode.state))


run(change)
