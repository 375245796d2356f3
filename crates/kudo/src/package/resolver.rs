//! Where packages come from: a directory, a tarball, the cluster, and for dependencies the package that has them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};

use super::files::{self, Contents, PackageFiles};
use super::{Resources, tarball};
use crate::dependencies::{self, DependencyGraph};

/// A resolver of package names.
#[derive(Debug, Clone)]
pub enum Resolver {
    /// Relative paths are relative to this directory.
    Dir(PathBuf),
    /// Paths are those of a tarball. They cannot lead out of it.
    Archive(Arc<Contents>),
}

impl Resolver {
    /// Reads a package. Returns its objects, and the resolver of its dependencies.
    pub fn resolve(&self, name: &str) -> Result<(Resources, Self)> {
        let (contents, resolver) = self.read(name)?;
        let files = PackageFiles::parse(&contents).with_context(|| format!("invalid package {name}"))?;
        Ok((Resources::from_files(&files)?, resolver))
    }

    /// The objects of a tarball, and the resolver of its dependencies.
    pub fn from_tarball(bytes: &[u8]) -> Result<(Resources, Self)> {
        let contents = tarball::unpack(bytes)?;
        let resources = Resources::from_files(&PackageFiles::parse(&contents)?)?;
        Ok((resources, Self::Archive(Arc::new(contents))))
    }

    /// The contents of a package.
    pub fn read(&self, name: &str) -> Result<(Contents, Self)> {
        match self {
            Self::Dir(dir) => read_local(&dir.join(name), name),
            Self::Archive(contents) => {
                let prefix = format!("{}/", normalize(name)?);
                let own = contents.iter().filter_map(|(path, bytes)| {
                    Some((path.strip_prefix(&prefix)?.to_owned(), bytes.clone()))
                });
                let own: Contents = own.collect();
                match own.is_empty() {
                    true => bail!("package {name} is not in the tarball"),
                    false => Ok((own, self.clone())),
                }
            }
        }
    }
}

/// Reads the packages that a package depends on, and sets their names and versions in its tasks.
pub fn resolve_dependencies(root: &mut Resources, resolver: &Resolver) -> Result<Vec<Resources>> {
    let mut graph = DependencyGraph::default();
    let mut found: Vec<Resources> = Vec::new();
    // The index of a parent in `found`; `None` is the root.
    let mut open = vec![(None, resolver.clone())];
    while let Some((at, resolver)) = open.pop() {
        let parent = match at {
            None => root.operator_version.clone(),
            Some(at) => found
                .get(at)
                .map(|own: &Resources| own.operator_version.clone())
                .unwrap_or_default(),
        };
        let mut resolved = parent.clone();
        for (i, spec) in dependencies::tasks(&parent) {
            let (child, child_resolver) = resolver.resolve(&spec.package).map_err(|error| {
                let error = format!("{error:#}");
                anyhow!(dependencies::resolve_error(
                    spec,
                    &parent.qualified_name(),
                    &error
                ))
            })?;
            let task = &mut resolved.spec.tasks[i].spec;
            child.operator.name().clone_into(&mut task.package);
            task.operator_version
                .clone_from(&child.operator_version.spec.version);
            task.app_version
                .clone_from(&child.operator_version.spec.app_version);
            let name = child.operator_version.qualified_name();
            if graph
                .add(&parent.qualified_name(), &name)
                .map_err(|error| anyhow!(error))?
            {
                open.push((Some(found.len()), child_resolver));
                found.push(child);
            }
        }
        match at {
            None => root.operator_version = resolved,
            Some(at) => found[at].operator_version = resolved,
        }
    }
    Ok(found)
}

fn read_local(path: &Path, name: &str) -> Result<(Contents, Resolver)> {
    if path.is_dir() {
        return Ok((files::read_dir(path)?, Resolver::Dir(path.to_owned())));
    }
    if !path.exists() {
        bail!("unsupported or missing package {name}: expected a directory or a .tgz file");
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let contents = tarball::unpack(&bytes)?;
    Ok((contents.clone(), Resolver::Archive(Arc::new(contents))))
}

/// A path without `.` and `..`, which must not lead out of the tarball.
fn normalize(path: &str) -> Result<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(
                parts
                    .pop()
                    .with_context(|| format!("package {path} is not in the tarball"))?,
            ),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str, dependency: Option<&str>) {
        let dir = dir.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let task = dependency.map_or("{name: t, kind: Dummy}".to_owned(), |package| {
            format!("{{name: t, kind: KudoOperator, spec: {{package: {package}}}}}")
        });
        let operator =
            format!("name: {name}\noperatorVersion: '1.0'\ntasks: [{task}]\nplans: {{deploy: {{}}}}\n");
        std::fs::write(dir.join("operator.yaml"), operator).unwrap();
        std::fs::write(dir.join("params.yaml"), "parameters: []\n").unwrap();
    }

    #[track_caller]
    fn check(packages: &[(&str, Option<&str>)], expected: Result<&str, &str>) {
        let dir = tempfile::tempdir().unwrap();
        for (name, dependency) in packages {
            write(dir.path(), name, *dependency);
        }
        let (mut root, resolver) = Resolver::Dir(dir.path().to_owned()).resolve("./a").unwrap();
        let outcome = resolve_dependencies(&mut root, &resolver).map(|found| {
            let names = found.iter().map(|own| own.operator_version.name().to_owned());
            let package = &root.operator_version.spec.tasks[0].spec.package;
            format!("{package}: {}", names.collect::<Vec<_>>().join(" "))
        });
        let outcome = outcome.map_err(|error| error.to_string());
        assert_eq!(outcome.as_deref().map_err(String::as_str), expected);
    }

    /// TO7
    #[test]
    fn dependencies_are_resolved_relative_to_their_package() {
        check(
            &[("a", Some("../b")), ("b", Some("../c")), ("c", None)],
            Ok("b: b-1.0 c-1.0"),
        );
        check(&[("a", None)], Ok(": "));
    }

    /// TO7
    #[test]
    fn a_cycle_of_packages_is_an_error() {
        check(
            &[("a", Some("../b")), ("b", Some("../a"))],
            Err("cyclic package dependency found when adding package b-1.0 -> a-1.0"),
        );
    }

    /// TO7
    #[test]
    fn a_tarball_has_its_dependencies_inside() {
        assert_eq!(normalize("./a/../b").unwrap(), "b");
        assert!(normalize("../b").is_err());
    }
}
