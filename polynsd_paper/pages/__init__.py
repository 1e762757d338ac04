"""What README.md and docs/ show of the records: tables, sentences and figures of their sections."""
