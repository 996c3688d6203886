# The course in a container: JupyterLab for learners, and `course grade` for teachers.
#
#   docker build --tag ehr-course .
#   docker run --rm --publish 127.0.0.1:8888:8888 ehr-course
#
# Building needs the network; running does not. What a learner changes is gone with the container:
# `--volume ehr-course:/home/learner/course` keeps it. To grade a folder of submissions, as yourself,
# so that the grades are yours:
#
#   mkdir -p grades
#   docker run --rm --network none --user "$(id -u):$(id -g)" \
#       --volume "$PWD/submissions:/submissions:ro" --volume "$PWD/grades:/grades" \
#       ehr-course python3 -m course grade /submissions --out /grades/week1
#
# Three stages: `base` is what all have in common, `dev` is the editor's container
# (.devcontainer/devcontainer.json), and the last one is the course. `.binder/Dockerfile` has the
# same instructions, because Binder looks for them there; a test compares the two.
FROM python:3.11-slim-bookworm AS base

# Binder chooses the user's name and number.
ARG NB_USER=learner
ARG NB_UID=1000
ENV USER=${NB_USER} HOME=/home/${NB_USER}
# A folder that WORKDIR makes would be root's.
RUN useradd --create-home --uid ${NB_UID} ${NB_USER} \
    && install --directory --owner=${NB_USER} --group=${NB_USER} ${HOME}/course
ENV HF_HUB_OFFLINE=1
EXPOSE 8888

FROM base AS dev

RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/*
USER ${USER}

FROM base AS course

USER ${USER}
WORKDIR ${HOME}/course
COPY --chown=${USER} . .
RUN python3 -m course lab --prepare-only \
    && rm -rf ${HOME}/.cache
ENV PATH=${HOME}/course/.venv/bin:${PATH}
CMD ["python3", "-m", "course", "lab", "--no-browser", "--ip", "0.0.0.0", "--port", "8888"]
