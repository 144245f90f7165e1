"""Whose bytes go first on a busy link?"""
