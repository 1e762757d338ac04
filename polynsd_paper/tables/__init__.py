"""From records to the table, the page and the figures of an experiment, with what others have printed."""
