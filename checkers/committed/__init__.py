"""The committed log as checkers read it: its records, their fold, and what ops left there."""
