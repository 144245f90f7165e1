"""The certificate of a command: is a run that was stopped and resumed the same as a whole one?"""
