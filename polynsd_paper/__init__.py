"""The reproduction of the paper: experiments, their records, tables, figures and claims."""
