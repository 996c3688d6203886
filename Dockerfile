# The course in a container: JupyterLab for learners, and `course grade` for teachers.
#
#   docker build --tag ehr-course .
#   docker run --rm --publish 127.0.0.1:8888:8888 ehr-course
#
# Building needs the network; running does not. What a learner changes is gone with the container:
# `--volume ehr-course:/home/learner/course` keeps it. To grade a folder of submissions:
#
#   docker run --rm --network none --volume "$PWD/submissions:/submissions:ro" \
#       --volume "$PWD/grades:/grades" ehr-course python3 -m course grade /submissions --out /grades/week1
FROM python:3.11-slim-bookworm

RUN useradd --create-home --uid 1000 learner
USER learner
WORKDIR /home/learner/course

COPY --chown=learner . .
RUN python3 -m course lab --prepare-only

ENV HF_HUB_OFFLINE=1
EXPOSE 8888
CMD ["python3", "-m", "course", "lab", "--no-browser", "--ip", "0.0.0.0", "--port", "8888"]
