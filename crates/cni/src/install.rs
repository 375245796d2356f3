//! Installation of the plugin for a runtime: links to the program, and the configuration where there is none.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::config::{NetworkOptions, PLUGIN, conflist};

/// The name of our configuration; runtimes take the first one in alphabetical order.
const CONFIG: &str = "10-setpoint.conflist";

/// Links the program as a plugin into a directory of its own.
pub fn install_plugins(program: &Path, directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for name in [PLUGIN, "loopback"] {
        let link = directory.join(name);
        match std::fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => symlink(program, link)?,
        }
    }
    Ok(())
}

/// Writes the configuration, unless the directory has one of another network. Returns whether ours is in force.
pub fn install_config(directory: &Path, options: &NetworkOptions) -> io::Result<bool> {
    std::fs::create_dir_all(directory)?;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_config = matches!(
            path.extension().and_then(OsStr::to_str),
            Some("conf" | "conflist" | "json")
        );
        if is_config && path.file_name() != Some(OsStr::new(CONFIG)) {
            return Ok(false);
        }
    }
    let temporary = directory.join(".setpoint.tmp");
    std::fs::write(&temporary, conflist(options))?;
    std::fs::rename(temporary, directory.join(CONFIG))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> NetworkOptions {
        NetworkOptions {
            subnet: "10.244.0.0/24".to_owned(),
            data_directory: "/data".into(),
            node_address: None,
        }
    }

    #[test]
    fn the_configuration_of_another_network_stays_alone() {
        let directory = tempfile::tempdir().unwrap();
        assert!(install_config(directory.path(), &options()).unwrap());
        assert!(install_config(directory.path(), &options()).unwrap());
        std::fs::write(directory.path().join("05-other.conflist"), "{}").unwrap();
        assert!(!install_config(directory.path(), &options()).unwrap());
    }

    #[test]
    fn the_plugins_are_links_to_the_program() {
        let directory = tempfile::tempdir().unwrap();
        for program in ["/old", "/new"] {
            install_plugins(Path::new(program), directory.path()).unwrap();
        }
        for name in ["setpoint", "loopback"] {
            assert_eq!(
                std::fs::read_link(directory.path().join(name)).unwrap(),
                Path::new("/new")
            );
        }
    }
}
