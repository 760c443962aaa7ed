# docker build -f deploy/kubernetes/example/train.Dockerfile -t penstock-trainer:dev .
FROM python:3.12-slim
RUN pip install --no-cache-dir torch --index-url https://download.pytorch.org/whl/cpu
# Without Go here the package comes without the penstock binary, which trainers of a fleet do not need.
COPY client/python /src
RUN pip install --no-cache-dir /src
USER 65532:65532
