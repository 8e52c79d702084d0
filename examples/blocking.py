"""Use Holdfast from a program without an event loop: the same verbs, without `await`."""

from holdfast import Holdfast, ResultTimeout

app = Holdfast("sqlite://")


@app.task
def resize(path: str, width: int) -> str:
    """Stand for real work."""
    return f"{path} at {width}"


def main() -> None:
    """Enqueue, look, wait a moment, cancel."""
    with app.blocking() as queue:
        handle = queue.enqueue(resize.call("cat.png", width=80))
        many = queue.enqueue_many(resize.call("dog.png", width=width) for width in (80, 160, 320))
        print("stored:", handle.id, "and", len(many), "more")

        for name, counts in queue.jobs.counts().items():
            for state, count in counts.items():
                print("counted:", name, state, count)

        try:
            handle.result(timeout="200ms")
        except ResultTimeout as error:  # nobody works on this store
            print("waited:", error)

        print("after cancel:", handle.cancel(actor="ada", reason="just a demo"))


if __name__ == "__main__":
    main()
