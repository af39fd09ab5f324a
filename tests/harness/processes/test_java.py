"""The folders of a Java: all that it takes to run it where only they are there."""

from __future__ import annotations

from pathlib import Path

from harness.processes.java import java_folders


def test_a_java_consists_of_its_home_and_of_what_links_in_it_lead_to(tmp_path: Path) -> None:
    home, etc = tmp_path / "jvm" / "java-99", tmp_path / "etc" / "java-99"
    for folder in (home / "bin", home / "lib", home / "conf" / "security", etc / "security"):
        folder.mkdir(parents=True)
    (home / "bin" / "java").touch()
    (etc / "net.properties").touch()
    (etc / "security" / "policy").touch()
    (home / "conf" / "net.properties").symlink_to(etc / "net.properties")
    (home / "conf" / "security" / "policy").symlink_to(etc / "security" / "policy")
    (home / "lib" / "inner").symlink_to(home / "conf")
    (home / "lib" / "gone").symlink_to(tmp_path / "nowhere")
    (home / "lib" / "top").symlink_to("/etc/passwd")
    (tmp_path / "java").symlink_to(home / "bin" / "java")
    assert java_folders(tmp_path / "java") == (etc, home)
