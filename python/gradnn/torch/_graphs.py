def enable(): pass
def disable(): pass
