"""Calls of language models: what a request asks for, what its answer has used. Seven APIs.

Pure. Requests are read as a whole; answers are read as they stream by, and nothing of them is kept.
"""
