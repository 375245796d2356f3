//! Warnings about deprecated volume types, and about overlapping paths in one volume.

use setpoint_schema::fields;
use setpoint_strategy::FieldRef;

use super::Warnings;

/// Deprecated volume types, with their names in messages.
const DEPRECATED_VOLUMES: &[(&str, &str, &str)] = &[
    (
        fields::PHOTON_PERSISTENT_DISK,
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        fields::GIT_REPO,
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        fields::SCALE_IO,
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        fields::FLOCKER,
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        fields::STORAGEOS,
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        fields::QUOBYTE,
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        fields::GLUSTERFS,
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        fields::CEPHFS,
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        fields::RBD,
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];

/// A file of a volume and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    path: String,
    source: String,
}

impl Warnings {
    pub(super) fn of_volumes(&mut self, volumes: &FieldRef<'_>) {
        for volume in volumes.items() {
            let is_set = |field: &str| volume.value().get(field).is_some_and(|value| !value.is_null());
            for (field, shown, why) in DEPRECATED_VOLUMES {
                if is_set(field) {
                    let path = volume.errors().at(shown).path();
                    self.0.push(format!("{path}: {why}"));
                }
            }
            if !is_set(fields::EPHEMERAL) {
                continue;
            }
            let template = volume.at(fields::EPHEMERAL).at(fields::VOLUME_CLAIM_TEMPLATE);
            let resources = template.at(fields::SPEC).at(fields::RESOURCES);
            for list in [fields::REQUESTS, fields::LIMITS] {
                self.of_fraction(&resources.at(list).key("storage"));
            }
        }
        for volume in volumes.items() {
            self.of_files(&volume);
        }
    }

    fn of_files(&mut self, volume: &FieldRef<'_>) {
        let sorts = [
            (fields::CONFIG_MAP, Some(fields::NAME), "ConfigMap"),
            (fields::SECRET, Some(fields::SECRET_NAME), "Secret"),
            (fields::DOWNWARD_API, None, "DownwardAPI"),
        ];
        for (field, named, shown) in sorts {
            let source = volume.at(field);
            if !source.is_set() {
                continue;
            }
            let shown = match named {
                Some(named) => format!("{shown} {:?}", source.at(named).str()),
                None => shown.to_owned(),
            };
            self.of_overlaps(volume, &shown, files(&source, ""));
        }
        let mut all = Vec::new();
        for source in volume.at(fields::PROJECTED).at(fields::SOURCES).items() {
            if source.is_empty() {
                let name = volume.at(fields::NAME).str();
                self.0
                    .push(format!("volume {name:?} (Projected) has no sources provided"));
            }
            all.extend(projected(&source));
        }
        self.of_overlaps(volume, "Projected", all);
    }

    fn of_overlaps(&mut self, volume: &FieldRef<'_>, shown: &str, files: Vec<File>) {
        for (at, file) in files.iter().enumerate() {
            for other in files[..at].iter().filter(|other| file.overlaps(other)) {
                self.0.push(format!(
                    "volume {:?} ({shown}): overlapping paths: {} with {}",
                    volume.at(fields::NAME).str(),
                    file.shown(),
                    other.shown()
                ));
            }
        }
    }
}

fn files(source: &FieldRef<'_>, from: &str) -> Vec<File> {
    let items = source.at(fields::ITEMS).items();
    items
        .map(|item| File::new(&item.at(fields::PATH), from))
        .collect()
}

fn projected(source: &FieldRef<'_>) -> Vec<File> {
    let named = |kind: &str, name: &str| format!("{kind} {name:?}");
    let (map, secret, api) = (
        source.at(fields::CONFIG_MAP),
        source.at(fields::SECRET),
        source.at(fields::DOWNWARD_API),
    );
    let (token, bundle, certificate) = (
        source.at(fields::SERVICE_ACCOUNT_TOKEN),
        source.at(fields::CLUSTER_TRUST_BUNDLE),
        source.at(fields::POD_CERTIFICATE),
    );
    if map.at(fields::ITEMS).is_set() {
        files(&map, &named("ConfigMap", map.at(fields::NAME).str()))
    } else if secret.at(fields::ITEMS).is_set() {
        files(&secret, &named("Secret", secret.at(fields::NAME).str()))
    } else if api.at(fields::ITEMS).is_set() {
        files(&api, "DownwardAPI")
    } else if token.is_set() {
        vec![File::new(&token.at(fields::PATH), "ServiceAccountToken")]
    } else if bundle.is_set() {
        let bundle_name = bundle.at(fields::NAME);
        let name = if bundle_name.is_set() {
            bundle_name.str()
        } else {
            bundle.at(fields::SIGNER_NAME).str()
        };
        vec![File::new(
            &bundle.at(fields::PATH),
            &named("ClusterTrustBundle", name),
        )]
    } else {
        let paths = [
            (fields::CERTIFICATE_CHAIN_PATH, "PodCertificate chain"),
            (fields::KEY_PATH, "PodCertificate key"),
            (fields::CREDENTIAL_BUNDLE_PATH, "PodCertificate credential bundle"),
        ];
        let set_paths = paths.iter().map(|(field, from)| (certificate.at(field), from));
        let set_paths = set_paths.filter(|(path, _)| !path.is_empty());
        set_paths.map(|(path, from)| File::new(&path, from)).collect()
    }
}

impl File {
    fn new(path: &FieldRef<'_>, source: &str) -> Self {
        Self {
            path: path.str().trim_end_matches('/').to_owned(),
            source: source.to_owned(),
        }
    }

    fn overlaps(&self, other: &File) -> bool {
        let inside = |path: &str, dir: &str| {
            let rest = path.strip_prefix(dir);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.path.is_empty()
            && !other.path.is_empty()
            && (inside(&self.path, &other.path) || inside(&other.path, &self.path))
    }

    fn shown(&self) -> String {
        match self.source.as_str() {
            "" => format!("{:?}", self.path),
            source => format!("{:?} ({source})", self.path),
        }
    }
}
