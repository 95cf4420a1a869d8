# The CPU build: docker build -t seqmodels . && docker run --rm -v "$PWD/runs:/seqmodels/runs" seqmodels python -m tasks.translation
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir torch --index-url https://download.pytorch.org/whl/cpu
WORKDIR /seqmodels
COPY . .
RUN pip install --no-cache-dir -e '.[export,site]'
CMD ["seqmodels", "models"]
