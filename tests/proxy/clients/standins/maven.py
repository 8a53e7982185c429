"""A stand-in for a Maven repository, and a project that needs two things of it: a parent and a jar.

The jar is an extension of the build, because Maven loads those by itself: any other jar would need a plugin,
and with it half of the plugins that there are.
"""

from __future__ import annotations

import hashlib
import io
import zipfile

from tests.proxy.clients.standins.static_files import CREDENTIAL, Files

GROUP = "test.lab"
PROJECT = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <parent><groupId>{group}</groupId><artifactId>parent</artifactId><version>1</version><relativePath/></parent>
  <artifactId>user</artifactId>
  <packaging>pom</packaging>
  <repositories><repository><id>central</id><url>{url}</url></repository></repositories>
  <pluginRepositories>
    <pluginRepository><id>central</id><url>{url}</url></pluginRepository>
  </pluginRepositories>
  <build><extensions><extension>
    <groupId>{group}</groupId><artifactId>tiny</artifactId><version>1</version>
  </extension></extensions></build>
</project>
"""


def project(url: str) -> str:
    """The `pom.xml` of the project; everything it needs is at the URL, and nowhere else."""
    return PROJECT.format(group=GROUP, url=url)


def repository(at: str, ballast: bytes = b"") -> Files:
    """The files below a path; `ballast` is in the jar.

    Beside a jar lies its digest. There is none of a POM, which says something else to everyone: Maven warns.
    """
    files = {
        **_artifact(at, GROUP, "parent", "1"),
        **_artifact(at, GROUP, "tiny", "1", jar(ballast)),
        # Maven gives this one to every extension that does not bring it.
        **_artifact(at, "org.codehaus.plexus", "plexus-utils", "1.1", jar()),
    }
    jars = {path: content for path, content in files.items() if path.endswith(".jar")}
    return files | {
        f"{path}.sha1": hashlib.sha1(content).hexdigest().encode() for path, content in jars.items()
    }


def jar(ballast: bytes = b"") -> bytes:
    """A jar of one file, which is stored as it is."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("ballast"), ballast)
    return made.getvalue()


def _artifact(at: str, group: str, name: str, version: str, content: bytes | None = None) -> Files:
    place = f"{at}/{group.replace('.', '/')}/{name}/{version}/{name}-{version}"
    packaging = "pom" if content is None else "jar"
    pom = (
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version><packaging>{packaging}</packaging>"
        f"<description>{CREDENTIAL}</description></project>"
    )
    return {f"{place}.pom": pom.encode()} | ({} if content is None else {f"{place}.jar": content})
