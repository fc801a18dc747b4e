"""Which functions belong to which task."""

from attendo.recipe import TaskName
from attendo.tasks.task import Task


def task_of(name: TaskName) -> Task:
    match name:
        case "translate":
            from attendo.tasks.translate import TASK
        case "language-model":
            from attendo.tasks.language_model import TASK
        case "masked-language-model":
            from attendo.tasks.masked import TASK
        case "classify":
            from attendo.tasks.classify import TASK
        case "denoise":
            from attendo.tasks.denoise import TASK
        case "classify-images":
            from attendo.tasks.images import TASK
    return TASK
