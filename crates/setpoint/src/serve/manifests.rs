//! Manifest files, whose objects are created at the start of a cluster: CustomResourceDefinitions first, and the others
//! once those are established.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use setpoint_api::options::WriteOptions;
use setpoint_api::{Clock, GroupResource, Gvk, Key, Payload, Request, Serve, Target, User, Verb};
use setpoint_codec::{json, yaml};
use setpoint_registry::Registry;
use setpoint_runtime::Caches;
use setpoint_schema::Tree;

/// The extensions of the files that are read in a directory, as kubectl reads them.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// How long a CustomResourceDefinition may take until it is established.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(10);

/// An object, and the file that it is from.
struct Manifest {
    object: Tree,
    file: PathBuf,
}

/// Creates the objects of these files and directories.
pub(super) async fn create(paths: &[PathBuf], registry: &Registry, clock: &Arc<dyn Clock>) -> Result<()> {
    let mut manifests = Vec::new();
    for file in files(paths)? {
        read(&file, &mut manifests).with_context(|| format!("cannot read {}", file.display()))?;
    }
    let (crds, others): (Vec<_>, Vec<_>) = manifests.into_iter().partition(Manifest::is_crd);
    for manifest in &crds {
        manifest.create(registry).await?;
    }
    let established = wait_until_established(registry, &crds);
    tokio::select! {
        outcome = established => outcome?,
        () = clock.sleep(ESTABLISH_TIMEOUT) => bail!(
            "not all CustomResourceDefinitions were established within {ESTABLISH_TIMEOUT:?}; see their conditions"
        ),
    }
    for manifest in &others {
        manifest.create(registry).await?;
    }
    Ok(())
}

/// The files to read: those that are named, and those in directories that are named, by name.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) {
                found.push(path);
            }
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

fn read(file: &Path, manifests: &mut Vec<Manifest>) -> Result<()> {
    let text = fs::read_to_string(file)?;
    for part in split(&text) {
        let tree = yaml::parse(part.as_bytes())?;
        let objects = match tree.get("items") {
            Some(Tree::List(items)) => items.clone(),
            _ => vec![tree],
        };
        let objects = objects.into_iter().filter(|object| *object != Tree::Null);
        manifests.extend(objects.map(|object| Manifest {
            object,
            file: file.to_owned(),
        }));
    }
    Ok(())
}

/// The parts of a YAML stream, which lines of three dashes separate.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        if line == "---" || line.starts_with("--- ") {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    let is_empty = |part: &str| {
        part.lines()
            .all(|line| line.trim().is_empty() || line.starts_with('#'))
    };
    parts.retain(|part| !is_empty(part));
    parts
}

// === impl Manifest ===

impl Manifest {
    fn is_crd(&self) -> bool {
        self.object.str_at(&["kind"]) == Some("CustomResourceDefinition")
    }

    fn name(&self) -> &str {
        self.object.str_at(&["metadata", "name"]).unwrap_or_default()
    }

    async fn create(&self, registry: &Registry) -> Result<()> {
        let target = self
            .target(registry)
            .with_context(|| self.file.display().to_string())?;
        let request = Request {
            user: Arc::new(User::new("kubernetes-admin", &[User::MASTERS])),
            target,
            verb: Verb::Create(Payload::json(json::write(&self.object)), WriteOptions::default()),
        };
        let created = registry.call(request).await;
        created.map_err(|status| anyhow!("{}: {}", self.file.display(), status.message))?;
        Ok(())
    }

    /// The collection that the object belongs to, by its `apiVersion` and `kind`.
    fn target(&self, registry: &Registry) -> Result<Target> {
        let text = |field: &str| self.object.str_at(&[field]).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let gvk = Gvk::new(group, version, kind);
        let kinds = registry.kinds();
        let found = kinds.iter().find(|one| one.info().gvk == gvk);
        let info = found
            .with_context(|| format!("no matches for kind {kind:?} in version {api_version:?}"))?
            .info();
        let namespace = self.object.str_at(&["metadata", "namespace"]);
        let namespace = namespace
            .filter(|namespace| !namespace.is_empty())
            .unwrap_or("default");
        Ok(Target::in_namespace(
            info.gvr.clone(),
            if info.is_namespaced() { namespace } else { "" },
        ))
    }
}

/// Waits for the condition `Established` of each CustomResourceDefinition.
async fn wait_until_established(registry: &Registry, crds: &[Manifest]) -> Result<()> {
    let resource = GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions");
    let cache = registry
        .cache(&resource)
        .context("CustomResourceDefinitions are not served")?;
    for manifest in crds {
        let key = Key::new("", manifest.name());
        loop {
            let mut changes = cache.subscribe(None)?;
            let stored = changes
                .initial
                .as_ref()
                .and_then(|objects| objects.find(&key).cloned());
            if stored.is_some_and(|stored| is_established(stored.json())) {
                break;
            }
            // The next look is at a new snapshot, so it does not matter which change this is.
            let _ = changes.next().await;
        }
    }
    Ok(())
}

fn is_established(crd: &[u8]) -> bool {
    let crd: serde_json::Value = serde_json::from_slice(crd).unwrap_or_default();
    let conditions = crd["status"]["conditions"].as_array();
    let is_true =
        |condition: &serde_json::Value| condition["type"] == "Established" && condition["status"] == "True";
    conditions.is_some_and(|conditions| conditions.iter().any(is_true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(split(text), expected);
    }

    #[test]
    fn dashes_separate_manifests_and_comments_alone_are_none() {
        check("a: 1\n", &["a: 1\n"]);
        check("---\na: 1\n---\nb: 2\n", &["a: 1\n", "b: 2\n"]);
        check("# only a comment\n---\n\n--- # next\na: 1", &["a: 1\n"]);
        check("a: |\n  ---\n", &["a: |\n  ---\n"]);
        check("", &[]);
    }
}
