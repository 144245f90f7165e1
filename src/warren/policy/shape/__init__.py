"""How many workers and servers does a job get?"""
