"""What all of pypaimon's managers of branches share: names of branches in, checks and paths out."""

from __future__ import annotations

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.pypaimon.values.words import TABLE_WORDS, speaking
from lakewright.storage.layout import MAIN_BRANCH, check_name

BRANCH_PREFIX = "branch-"


@speaking(TABLE_WORDS)
class BranchManager:
    """What all managers of branches share: the verbs, and the rules of names and paths."""

    def create_branch(
        self,
        branch_name: str,  # noqa: ARG002 - subclasses use it
        tag_name: str | None = None,  # noqa: ARG002 - subclasses use it
        ignore_if_exists: bool = False,  # noqa: ARG002, FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Make a branch."""
        raise UnsupportedError("Subclasses must implement create_branch")

    def drop_branch(self, branch_name: str) -> None:  # noqa: ARG002 - subclasses use it
        """Drop a branch."""
        raise UnsupportedError("Subclasses must implement drop_branch")

    def rename_branch(self, from_branch: str, to_branch: str) -> None:  # noqa: ARG002 - subclasses use it
        """Give a branch another name."""
        raise UnsupportedError("Subclasses must implement rename_branch")

    def fast_forward(self, branch_name: str) -> None:  # noqa: ARG002 - subclasses use it
        """Bring the current branch to the state of another one."""
        raise UnsupportedError("Subclasses must implement fast_forward")

    def branches(self) -> list[str]:
        """Return the names of the branches."""
        raise UnsupportedError("Subclasses must implement branches")

    def branch_exists(self, branch_name: str) -> bool:
        """Say whether there is a branch of this name."""
        return branch_name in self.branches()

    @staticmethod
    def branch_path(table_path: str, branch: str) -> str:
        """Return the directory of a branch."""
        return table_path if branch == MAIN_BRANCH else f"{table_path}/branch/{BRANCH_PREFIX}{branch}"

    @staticmethod
    def normalize_branch(branch: str | None) -> str:
        """Return the name of a branch; none and blank ones stand for `main`."""
        return branch if branch and branch.strip() else MAIN_BRANCH

    @staticmethod
    def is_main_branch(branch: str) -> bool:
        """Say whether a branch is the table itself."""
        return branch == MAIN_BRANCH

    @staticmethod
    def validate_branch(branch_name: str) -> None:
        """Raise an error if a new branch cannot have this name."""
        check_name("branch", branch_name)

    @staticmethod
    def fast_forward_validate(branch_name: str, current_branch: str) -> None:
        """Raise an error if one branch cannot be forwarded to the other."""
        if branch_name == MAIN_BRANCH:
            raise InvalidInputError("Branch name 'main' do not use in fast-forward: give the branch to forward to")
        check_name("branch", branch_name)
        if branch_name == current_branch:
            raise InvalidInputError(f"Fast-forward from the current branch {current_branch!r} is not allowed.")
