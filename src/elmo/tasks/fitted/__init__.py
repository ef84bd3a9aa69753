"""Fitted tasks: trained models and lookup models."""
