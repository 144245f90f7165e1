"""Which task runs where, and when?"""
