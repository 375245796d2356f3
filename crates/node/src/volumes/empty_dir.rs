//! Empty directories on the node's disk or in memory.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::mount::MountFlags;
use setpoint_api::Quantity;

/// Creates the directory, unless it is there. Returns whether it was created.
pub(super) fn prepare(path: &Path, medium: &str, size_limit: Option<&str>) -> io::Result<bool> {
    let is_new = !path.exists();
    fs::create_dir_all(path)?;
    if medium == "Memory" && !is_mount_point(path)? {
        mount_tmpfs(path, size_limit)?;
    }
    if is_new {
        fs::set_permissions(path, Permissions::from_mode(0o777))?;
    }
    Ok(is_new)
}

/// Whether something is mounted there: its device differs from its parent's.
pub(super) fn is_mount_point(path: &Path) -> io::Result<bool> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    Ok(fs::metadata(path)?.dev() != fs::metadata(parent)?.dev())
}

/// Mounts memory there. An agent without the right to mount keeps the files on disk, which is less private and not
/// limited in size.
fn mount_tmpfs(path: &Path, size_limit: Option<&str>) -> io::Result<()> {
    let size = size_limit.and_then(|limit| limit.parse::<Quantity>().ok());
    let options = size
        .map(|size| format!("size={}", size.value()))
        .unwrap_or_default();
    let options = std::ffi::CString::new(options)?;
    let flags = MountFlags::empty();
    match rustix::mount::mount("tmpfs", path, "tmpfs", flags, Some(options.as_c_str())) {
        Err(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => {
            tracing::warn!(path = %path.display(), "cannot mount memory: the volume is on disk");
            Ok(())
        }
        mounted => Ok(mounted?),
    }
}
