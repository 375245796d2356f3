//! Archives of KUDO's packages: what is read is no larger than the archive, and no path leads out of it.

use std::io::Read;

use flate2::read::GzDecoder;
use setpoint_kudo::package::tarball;

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "package",
    cost: 1,
    seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let file = |(path, bytes): (&str, &[u8])| (path.to_owned(), bytes.to_vec());
    let packages = [
        vec![("operator.yaml", &b"name: a\n"[..])],
        vec![("params.yaml", b""), ("templates/a.yaml", &[b'x'; 700])],
    ];
    let packed = packages.into_iter().filter_map(|files| {
        let contents = files.into_iter().map(file).collect();
        tarball::pack(&contents).ok()
    });
    let unzipped = packed.filter_map(|packed| {
        let mut archive = Vec::new();
        let read = GzDecoder::new(&packed[..]).read_to_end(&mut archive);
        read.is_ok().then_some(archive)
    });
    unzipped.collect()
}

fn run(bytes: &[u8]) {
    let Ok(files) = tarball::read_archive(bytes) else {
        return;
    };
    let total: usize = files.values().map(Vec::len).sum();
    assert!(total <= bytes.len(), "{total} bytes of {}", bytes.len());
    for path in files.keys() {
        assert!(
            !path.starts_with('/') && path.split('/').all(|part| part != ".."),
            "{path}"
        );
    }
}
