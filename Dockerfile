# docker build -t attendo .
# docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" attendo train train.en train.de
FROM python:3.11-slim
WORKDIR /opt/attendo
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY attendo ./attendo
# Without a GPU, name a package index that has torch's CPU build here: the image becomes many times smaller.
ARG PIP_OPTIONS=""
RUN pip install --no-cache-dir $PIP_OPTIONS -c constraints.txt .
RUN useradd --create-home attendo
USER attendo
WORKDIR /data
ENTRYPOINT ["attendo"]
