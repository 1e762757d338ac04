"""What lies in a run folder."""

FORMAT = 1  # of everything below; a reader refuses newer ones

CONFIG = "config.json"
ENVIRONMENT = "environment.json"
METRICS = "metrics.jsonl"
SNAPSHOT = "snapshot.safetensors"
MODEL = "model.safetensors"
PREDICTIONS = "predictions.parquet"
RESULT = "result.json"
LOCK = "lock"

WRITTEN = (CONFIG, ENVIRONMENT, METRICS, SNAPSHOT, MODEL, PREDICTIONS, RESULT)
