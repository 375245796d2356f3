//! Ownership of volumes by the pod's group (`fsGroup`).

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;

use k8s_openapi::api::core::v1;

use crate::container_config::spec;

const READ_WRITE: u32 = 0o660;
const READ_ONLY: u32 = 0o440;
const EXECUTE: u32 = 0o110;
const SET_GROUP_ID: u32 = 0o2000;

/// Who owns a volume.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ownership {
    group: Option<u32>,
    mask: u32,
    /// Whether a volume whose root has the right owner is left alone (`OnRootMismatch`).
    on_root_mismatch: bool,
}

impl Ownership {
    /// The ownership that the pod's security context requires.
    pub(super) fn of_pod(pod: &v1::Pod, read_only: bool) -> Self {
        let spec = spec(pod);
        let context = spec.security_context.as_ref();
        let group = context.and_then(|context| context.fs_group);
        let policy = context.and_then(|context| context.fs_group_change_policy.as_deref());
        Self {
            group: group.and_then(|group| u32::try_from(group).ok()),
            mask: if read_only { READ_ONLY } else { READ_WRITE },
            on_root_mismatch: policy == Some("OnRootMismatch"),
        }
    }

    /// Gives the volume and everything in it to the group.
    pub(super) fn apply(self, path: &Path) -> io::Result<()> {
        match self.group {
            Some(group) => self.apply_group(path, group),
            None => Ok(()),
        }
    }

    /// As [`Self::apply`], unless the policy is to look at the root only and its owner is right.
    pub(super) fn apply_by_policy(self, path: &Path) -> io::Result<()> {
        let metadata = fs::metadata(path)?;
        let wanted = self.mask | EXECUTE | SET_GROUP_ID;
        let is_right = Some(metadata.gid()) == self.group && metadata.mode() & wanted == wanted;
        match self.on_root_mismatch && is_right {
            true => Ok(()),
            false => self.apply(path),
        }
    }

    fn apply_group(self, path: &Path, group: u32) -> io::Result<()> {
        lchown(path, None, Some(group))?;
        let metadata = fs::symlink_metadata(path)?;
        if metadata.is_symlink() {
            return Ok(());
        }
        let mut mask = self.mask;
        if metadata.is_dir() {
            mask |= EXECUTE | SET_GROUP_ID;
        }
        fs::set_permissions(path, Permissions::from_mode(metadata.mode() & 0o7777 | mask))?;
        if metadata.is_dir() {
            for entry in fs::read_dir(path)? {
                self.apply_group(&entry?.path(), group)?;
            }
        }
        Ok(())
    }
}
