"""A journal from either world becomes metrics, figures, a page, a trace."""
