//! Volumes whose files come from API objects: configMap, secret, downwardAPI, projected.

use k8s_openapi::api::core::v1;

use super::payload::{self, Payload, ProjectedFile};
use super::pod_certificate::CredentialKey;
use super::{MountedVolume, VolumeManager, atomic_writer, blocking, empty_dir, ownership::Ownership};
use crate::container_config::{field_value, identity, resource_value, spec};

/// The mode of files where the API server set none.
const DEFAULT_MODE: i32 = 0o644;

/// The mode of credentials that only the pod's group or user may read.
const PRIVATE_MODE: i32 = 0o600;

/// Whether the volume's files come from API objects.
pub(super) fn is_projection(volume: &v1::Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

impl VolumeManager {
    pub(super) async fn mount_projection(
        &self,
        pod: &v1::Pod,
        volume: &v1::Volume,
    ) -> Result<MountedVolume, String> {
        let files = self.payload(pod, volume).await?;
        let (plugin, medium) = match volume {
            v1::Volume {
                config_map: Some(_), ..
            } => ("configmap", ""),
            v1::Volume { secret: Some(_), .. } => ("secret", "Memory"),
            v1::Volume {
                projected: Some(_), ..
            } => ("projected", "Memory"),
            _ => ("downward-api", "Memory"),
        };
        let path = self.volume_path(pod, plugin, &volume.name);
        let ownership = Ownership::of_pod(pod, true);
        let now = self.clock.now();
        let writes = self.writes.clone();
        blocking(move || {
            let _lock = writes.lock();
            empty_dir::prepare(&path, medium, None)?;
            if atomic_writer::write(&path, &files, now)? {
                ownership.apply(&path)?;
            }
            Ok(MountedVolume {
                path,
                read_only: true,
                image: None,
            })
        })
        .await
    }

    async fn payload(&self, pod: &v1::Pod, volume: &v1::Volume) -> Result<Payload, String> {
        let [_, namespace, uid] = identity(pod);
        if let Some(source) = &volume.config_map {
            let optional = source.optional == Some(true);
            let data = self.objects.config_map(namespace, &source.name, optional).await?;
            let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
            return payload::of_config_map(&data, source.items.as_deref(), mode, optional);
        }
        if let Some(source) = &volume.secret {
            let optional = source.optional == Some(true);
            let name = source.secret_name.as_deref().unwrap_or_default();
            let data = self.objects.secret(namespace, name, optional).await?;
            let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
            return payload::of_secret(&data, source.items.as_deref(), mode, optional);
        }
        if let Some(source) = &volume.downward_api {
            let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
            return self.downward_payload(pod, source.items.as_deref(), mode);
        }
        let projected = volume.projected.clone().unwrap_or_default();
        let mode = projected.default_mode.unwrap_or(DEFAULT_MODE);
        let (mut all, mut errors) = (Payload::new(), Vec::new());
        for (index, source) in projected.sources.iter().flatten().enumerate() {
            let key = CredentialKey {
                pod_uid: uid.to_owned(),
                volume: volume.name.clone(),
                source: index,
            };
            match self.projected_source(pod, (source, key), mode).await {
                Ok(files) => all.extend(files),
                Err(error) => errors.push(error),
            }
        }
        match errors.as_slice() {
            [] => Ok(all),
            [error] => Err(error.clone()),
            errors => Err(format!("[{}]", errors.join(", "))),
        }
    }

    async fn projected_source(
        &self,
        pod: &v1::Pod,
        (source, key): (&v1::VolumeProjection, CredentialKey),
        mode: i32,
    ) -> Result<Payload, String> {
        let [_, namespace, _] = identity(pod);
        if let Some(source) = &source.secret {
            let optional = source.optional == Some(true);
            let data = self.objects.secret(namespace, &source.name, optional).await?;
            return payload::of_secret(&data, source.items.as_deref(), mode, optional);
        }
        if let Some(source) = &source.config_map {
            let optional = source.optional == Some(true);
            let data = self.objects.config_map(namespace, &source.name, optional).await?;
            return payload::of_config_map(&data, source.items.as_deref(), mode, optional);
        }
        if let Some(source) = &source.downward_api {
            return self.downward_payload(pod, source.items.as_deref(), mode);
        }
        if let Some(source) = &source.service_account_token {
            let token = self.tokens.token(pod, source).await?;
            return Ok(private_payload(pod, mode, [(Some(&source.path), token)]));
        }
        if let Some(source) = &source.cluster_trust_bundle {
            let anchors = self.objects.trust_anchors(source).await?;
            return Ok(private_payload(pod, mode, [(Some(&source.path), anchors)]));
        }
        if let Some(source) = &source.pod_certificate {
            let credentials = self.pod_credentials(pod, source, key).await?;
            let bundle = format!("{}{}", credentials.key, credentials.chain);
            let files = [
                (source.credential_bundle_path.as_ref(), bundle),
                (source.key_path.as_ref(), credentials.key),
                (source.certificate_chain_path.as_ref(), credentials.chain),
            ];
            return Ok(private_payload(pod, mode, files));
        }
        Err("unsupported source of a projected volume".to_owned())
    }

    fn downward_payload(
        &self,
        pod: &v1::Pod,
        items: Option<&[v1::DownwardAPIVolumeFile]>,
        default_mode: i32,
    ) -> Result<Payload, String> {
        let mut files = Payload::new();
        for item in items.unwrap_or_default() {
            let value = self.downward_value(pod, item)?;
            let mode = item.mode.unwrap_or(default_mode);
            files.insert(item.path.clone(), ProjectedFile::new(value.into_bytes(), mode));
        }
        Ok(files)
    }

    fn downward_value(&self, pod: &v1::Pod, item: &v1::DownwardAPIVolumeFile) -> Result<String, String> {
        if let Some(field) = &item.field_ref {
            return field_value(pod, &field.field_path).map_err(|error| error.0);
        }
        let Some(resource) = &item.resource_field_ref else {
            return Ok(String::new());
        };
        let name = resource.container_name.as_deref().unwrap_or_default();
        let spec = spec(pod);
        let mut containers = spec
            .containers
            .iter()
            .chain(spec.init_containers.iter().flatten());
        let container = containers
            .find(|container| container.name == name)
            .ok_or_else(|| format!("container {name} not found"))?;
        resource_value(container, resource, &self.node).map_err(|error| error.0)
    }
}

/// Files that only the pod's group or user may read, if the pod sets one. Those without a path are left out.
fn private_payload<'a>(
    pod: &v1::Pod,
    mode: i32,
    files: impl IntoIterator<Item = (Option<&'a String>, String)>,
) -> Payload {
    let owner = common_user(pod);
    let spec = spec(pod);
    let context = spec.security_context.as_ref();
    let has_group = context.is_some_and(|context| context.fs_group.is_some());
    let mode = if owner.is_some() || has_group {
        PRIVATE_MODE
    } else {
        mode
    };
    let named = files
        .into_iter()
        .filter_map(|(path, text)| Some((path.filter(|path| !path.is_empty())?, text)));
    let file = |(path, text): (&String, String)| {
        let mut file = ProjectedFile::new(text.into_bytes(), mode);
        file.owner = owner;
        (path.clone(), file)
    };
    named.map(file).collect()
}

/// The user that all containers run as, if it is one and set: it owns the pod's credentials.
fn common_user(pod: &v1::Pod) -> Option<i64> {
    let spec = spec(pod);
    let of_pod = spec
        .security_context
        .as_ref()
        .and_then(|context| context.run_as_user);
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut users = containers.map(|container| {
        let context = container.security_context.as_ref();
        context.and_then(|context| context.run_as_user).or(of_pod)
    });
    let first = users.next()??;
    users.all(|user| user == Some(first)).then_some(first)
}
