//! Tests of the records of pulled images: which pod may use which image.

use super::*;

const ID: &str = "sha256:1";
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn secret(hash: &str) -> PullSecret {
    PullSecret {
        uid: format!("uid of {hash}"),
        namespace: "team".to_owned(),
        name: "keys".to_owned(),
        credential_hash: hash.to_owned(),
    }
}

fn image(tag: &str) -> Image {
    Image {
        id: ID.to_owned(),
        tags: vec![tag.to_owned()],
        ..Image::default()
    }
}

#[track_caller]
fn check_repository(name: &str, expected: (&str, &str)) {
    let (repository, version) = parse(name);
    assert_eq!((repository.as_str(), version), expected);
}

#[test]
fn an_image_has_a_repository_and_a_tag_or_digest() {
    check_repository("busybox", ("docker.io/library/busybox", "latest"));
    check_repository("team/app:1", ("docker.io/team/app", "1"));
    check_repository("localhost:5000/app", ("localhost:5000/app", "latest"));
    check_repository("example.com/app:1@sha256:0a", ("example.com/app", "sha256:0a"));
}

#[tokio::test]
async fn an_image_that_was_there_before_is_open() {
    let directory = tempfile::tempdir().unwrap();
    let records = PullRecords::new(directory.path());
    assert_eq!(records.check("app:1", ID).await, ImageAccess::Open);
}

#[tokio::test]
async fn an_image_that_was_pulled_with_a_secret_is_restricted_for_the_next_agent_too() {
    let directory = tempfile::tempdir().unwrap();
    let records = PullRecords::new(directory.path());
    records.begin("app:1").await.unwrap();
    let pulled_with = PulledWith::Secret(secret("a"));
    records.end("app:1", Some((ID, pulled_with)), NOW).await;
    let records = PullRecords::new(directory.path());
    for name in ["app:1", "app", "app@sha256:1", "other"] {
        assert_eq!(records.check(name, ID).await, ImageAccess::Restricted, "{name}");
    }
    assert!(records.is_granted("app:1", ID, vec![secret("a")], NOW).await);
    assert!(!records.is_granted("app:1", ID, vec![secret("b")], NOW).await);
    assert!(!records.is_granted("other", ID, vec![secret("a")], NOW).await);
    let file = std::fs::read_dir(directory.path().join("image_manager/pulling")).unwrap();
    assert_eq!(file.count(), 0);
}

#[tokio::test]
async fn an_image_whose_pull_was_interrupted_is_restricted() {
    let directory = tempfile::tempdir().unwrap();
    PullRecords::new(directory.path()).begin("app:1").await.unwrap();
    let records = PullRecords::new(directory.path());
    assert_eq!(records.check("app:1", ID).await, ImageAccess::Restricted);
    let names = records.run(|files| files.names_in_progress()).await.unwrap();
    let images = vec![image("docker.io/library/app:1")];
    let recovered = records.run(move |files| files.recover(&names, &images, NOW));
    recovered.await.unwrap();
    // By its digest, too.
    assert_eq!(records.check("app@sha256:1", ID).await, ImageAccess::Restricted);
    assert_eq!(records.check("app:1", "sha256:2").await, ImageAccess::Open);
}

#[tokio::test]
async fn the_record_of_an_image_that_is_gone_is_removed_unless_it_is_newer() {
    let directory = tempfile::tempdir().unwrap();
    let records = PullRecords::new(directory.path());
    let pulled_with = PulledWith::Secret(secret("a"));
    records.end("app:1", Some((ID, pulled_with)), NOW).await;
    let later = Timestamp::from_second(1).unwrap();
    for (images, listed_at, expected) in [
        (vec![], NOW, ImageAccess::Restricted),
        (vec![image("app:1")], later, ImageAccess::Restricted),
        (vec![], later, ImageAccess::Open),
    ] {
        records.retain(&images, listed_at).await;
        assert_eq!(records.check("app:1", ID).await, expected);
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_restricts_the_image() {
    let directory = tempfile::tempdir().unwrap();
    let records = PullRecords::new(directory.path());
    write(
        &directory.path().join("image_manager/pulled"),
        &file_name(ID),
        b"{",
    )
    .unwrap();
    assert_eq!(records.check("app:1", ID).await, ImageAccess::Restricted);
}
