"""Notices to people, by mail, chat or webhook: what they say, and how they are sent."""
