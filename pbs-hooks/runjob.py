
pbs.event().accept()
