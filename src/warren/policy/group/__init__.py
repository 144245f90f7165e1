"""Which jobs share hosts?"""
