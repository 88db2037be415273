//! A tree of real files, links, pipes and sockets, requested by path.

use super::listing::LISTING_LIMIT;
use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use tempfile::TempDir;

fn path(target: &str) -> AssetPath {
    AssetPath::decode(target).unwrap()
}

/// `media/` to be served, and a secret beside it.
fn tree() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let media = dir.path().join("media");
    fs::create_dir_all(media.join("sub/deep")).unwrap();
    fs::write(dir.path().join("secret.ts"), "secret").unwrap();
    fs::write(media.join("clip.ts"), "clip").unwrap();
    fs::write(media.join("sub/clip.ts"), "sub clip").unwrap();
    dir
}

fn open(dir: &TempDir, names: &[&str]) -> Result<Library, LibraryError> {
    Library::open(&names.iter().map(|name| dir.path().join(name)).collect::<Vec<_>>())
}

fn content(library: &Library, target: &str) -> Result<String, FindError> {
    let mut asset = library.find_file(&path(target))?;
    let content = std::io::read_to_string(&mut asset.file).unwrap();
    assert_eq!(asset.version.identity.size, content.len() as u64);
    Ok(content)
}

fn names(listing: &FolderListing) -> Vec<String> {
    let entry = |entry: &Entry| {
        let slash = if entry.kind == EntryKind::Folder { "/" } else { "" };
        format!("{}{slash}", String::from_utf8_lossy(&entry.name))
    };
    listing.entries.iter().map(entry).collect()
}

/// Promise: The version of a folder is never that of one outside the served folder.
#[test]
fn versions_are_those_of_folders_inside() {
    let dir = tree();
    fs::create_dir(dir.path().join("media/.hidden")).unwrap();
    for (name, target) in [("inside", "sub"), ("outside", "../media"), ("root", "/"), ("loop", "loop")] {
        symlink(target, dir.path().join("media").join(name)).unwrap();
    }
    let library = open(&dir, &["media"]).unwrap();
    let version = |target: &str| library.folder_version(&path(target));
    assert_eq!(version("/inside"), version("/sub"));
    assert!(version("/").is_ok() && version("/sub/").is_ok());
    for target in ["/outside", "/root", "/loop", "/clip.ts", "/missing", "/.hidden"] {
        assert_eq!(version(target), Err(FindError::NotFound), "{target}");
        let read = library.names(&path(target), &mut |name| panic!("{name:?}"));
        assert_eq!(read, Err(FindError::NotFound), "{target}");
    }
    let mut all = Vec::new();
    let mut first = |name: &[u8]| {
        all.push(name.to_vec());
        ControlFlow::Break(())
    };
    library.names(&path("/sub"), &mut first).unwrap();
    assert_eq!(all.len(), 1);
}

#[test]
fn one_folder_is_the_root() {
    let dir = tree();
    let library = open(&dir, &["media"]).unwrap();
    assert_eq!(content(&library, "/clip.ts").unwrap(), "clip");
    assert_eq!(content(&library, "/sub/clip.ts").unwrap(), "sub clip");
    assert_eq!(names(&library.list(&path("/")).unwrap()), ["sub/", "clip.ts"]);
    assert_eq!(names(&library.list(&path("/sub/")).unwrap()), ["deep/", "clip.ts"]);
    assert!(matches!(library.find(&path("/sub")), Ok(Found::Folder)));
    for missing in ["/media/clip.ts", "/nothing", "/clip.ts/", "/clip.ts/more", "/sub", "/"] {
        assert_eq!(content(&library, missing), Err(FindError::NotFound), "{missing}");
    }
    assert_eq!(library.list(&path("/clip.ts")), Err(FindError::NotFound));
}

/// Promise: A file whose name is in the kernel's cache is opened without waiting, by the same rules as other
/// files.
#[test]
fn names_in_the_cache_open_at_once_by_the_same_rules() {
    let dir = tree();
    symlink("../secret.ts", dir.path().join("media/way-out.ts")).unwrap();
    fs::write(dir.path().join("media/.hidden.ts"), "hidden").unwrap();
    let library = open(&dir, &["media"]).unwrap();
    for name in
        ["/clip.ts", "/sub/clip.ts", "/way-out.ts", "/.hidden.ts", "/sub", "/", "/clip.ts/", "/nothing"]
    {
        // Now the kernel knows the name.
        let found = content(&library, name);
        let cached = library.find_cached(&path(name));
        if let (Ok(content), Some(mut asset)) = (&found, cached) {
            assert_eq!(*content, std::io::read_to_string(&mut asset.file).unwrap());
        } else {
            let is_local = !matches!(&library.tree, Tree::Root(folder) if !folder.folder.is_local());
            assert!(found.is_err() || !is_local, "{name} is not opened from the cache");
            assert!(library.find_cached(&path(name)).is_none(), "{name}");
        }
    }
}

#[test]
fn several_have_their_own_names() {
    let dir = tree();
    let library = open(&dir, &["media", "secret.ts"]).unwrap();
    assert_eq!(content(&library, "/media/sub/clip.ts").unwrap(), "sub clip");
    assert_eq!(content(&library, "/secret.ts").unwrap(), "secret");
    assert_eq!(names(&library.list(&path("/")).unwrap()), ["media/", "secret.ts"]);
    assert_eq!(names(&library.list(&path("/media")).unwrap()), ["sub/", "clip.ts"]);
    for missing in ["/clip.ts", "/secret.ts/more", "/secret.ts/", "/media"] {
        assert_eq!(content(&library, missing), Err(FindError::NotFound), "{missing}");
    }
    // A single file keeps its name, too.
    let library = open(&dir, &["secret.ts"]).unwrap();
    assert_eq!(content(&library, "/secret.ts").unwrap(), "secret");
    assert_eq!(names(&library.list(&path("/")).unwrap()), ["secret.ts"]);
}

#[test]
fn what_cannot_be_served_is_said_at_start() {
    let dir = tree();
    let message = |names: &[&str]| open(&dir, names).unwrap_err().to_string();
    let clash = message(&["media/clip.ts", "secret.ts", "media/sub/clip.ts"]);
    assert!(
        clash.contains("media/clip.ts and ") && clash.contains("media/sub/clip.ts would both"),
        "{clash}"
    );
    assert!(message(&["media", "media"]).contains("/media"));
    assert!(message(&["media", "nowhere"]).contains("nowhere: No such file"));
    assert!(message(&[]).contains("nothing to serve"));
    assert!(matches!(Library::open(&["/dev/null".into()]), Err(LibraryError::Special(_))));
    assert!(matches!(open(&dir, &["media", "/"]), Err(LibraryError::Nameless(_))));
    let dots = open(&dir, &["secret.ts", "media/sub/.."]).unwrap();
    assert_eq!(names(&dots.list(&path("/")).unwrap()), ["media/", "secret.ts"]);
}

/// Promise: RTSP finds a file whose name differs from the URL only in case, if it is the only match.
#[test]
fn names_differ_in_case_only_where_that_is_unambiguous() {
    let dir = tree();
    let media = dir.path().join("media");
    fs::create_dir(media.join("Filme")).unwrap();
    for name in ["Filme/Größe Ä.TS", "One.ts", "ONE.ts", "Clip.ts", ".Hidden.ts"] {
        fs::write(media.join(name), name).unwrap();
    }
    symlink("../secret.ts", media.join("Secret.ts")).unwrap();
    let library = open(&dir, &["media"]).unwrap();
    let content = |name: &str| {
        let found = library.find_file_in_other_case(&AssetPath::from_decoded(name.as_bytes()).unwrap());
        found.map(|(path, mut asset)| {
            let path = String::from_utf8_lossy(path.as_bytes()).into_owned();
            (path, std::io::read_to_string(&mut asset.file).unwrap())
        })
    };
    let large = || Ok(("Filme/Größe Ä.TS".to_owned(), "Filme/Größe Ä.TS".to_owned()));
    // The exact path, in lower case, and as VLC changes it: only ASCII letters.
    assert_eq!(content("Filme/Größe Ä.TS"), large());
    assert_eq!(content("filme/größe ä.ts"), large());
    assert_eq!(content("filme/größe Ä.ts"), large());
    assert_eq!(content("clip.ts"), Ok(("clip.ts".to_owned(), "clip".to_owned())), "it exists as it is");
    for missing in ["one.ts", ".hidden.ts", "secret.ts", "nothing", "../SECRET.ts", "filme", "clip.ts/more"] {
        let path = AssetPath::from_decoded(missing.as_bytes());
        let found = path.map(|path| library.find_file_in_other_case(&path).err());
        assert!(found.is_err() || found == Ok(Some(FindError::NotFound)), "{missing}: {found:?}");
    }
    let named = open(&dir, &["media", "secret.ts"]).unwrap();
    let path = path("/MEDIA/FILME/gr%C3%B6%C3%9Fe%20%C3%84.ts");
    assert!(named.find_file_in_other_case(&path).is_ok());
}

/// Promise: Files outside the served folders are unreachable, whatever the path or symlink.
#[test]
fn links_stay_inside() {
    let dir = tree();
    let media = dir.path().join("media");
    symlink("sub/clip.ts", media.join("in.ts")).unwrap();
    symlink("../clip.ts", media.join("sub/up.ts")).unwrap();
    symlink("sub", media.join("folder")).unwrap();
    for (name, target) in [
        ("out.ts", "../secret.ts"),
        ("outside", ".."),
        ("absolute.ts", "/etc/passwd"),
        ("magic", "/proc/self/root"),
        ("circle", "circle"),
        ("dangling", "nothing"),
        ("device", "/dev/zero"),
    ] {
        symlink(target, media.join(name)).unwrap();
    }
    symlink(media.join("clip.ts"), media.join("absolute-in.ts")).unwrap();
    let library = open(&dir, &["media"]).unwrap();
    assert_eq!(content(&library, "/in.ts").unwrap(), "sub clip");
    assert_eq!(content(&library, "/sub/up.ts").unwrap(), "clip");
    assert_eq!(content(&library, "/folder/up.ts").unwrap(), "clip");
    for missing in [
        "/out.ts",
        "/outside/secret.ts",
        "/absolute.ts",
        "/absolute-in.ts",
        "/magic/etc/passwd",
        "/circle",
        "/dangling",
        "/device",
    ] {
        assert_eq!(content(&library, missing), Err(FindError::NotFound), "{missing}");
    }
    assert_eq!(names(&library.list(&path("/")).unwrap()), ["folder/", "sub/", "clip.ts", "in.ts"]);
    assert_eq!(names(&library.list(&path("/folder")).unwrap()), ["deep/", "clip.ts", "up.ts"]);
    assert_eq!(library.list(&path("/outside")), Err(FindError::NotFound));
}

#[test]
fn special_and_hidden_files_are_not_there() {
    let dir = tree();
    let media = dir.path().join("media");
    rustix::fs::mknodat(rustix::fs::CWD, media.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let _socket = UnixListener::bind(media.join("socket")).unwrap();
    fs::write(media.join(".hidden.ts"), "hidden").unwrap();
    fs::create_dir(media.join(".git")).unwrap();
    fs::write(media.join(".git/config"), "hidden").unwrap();
    let library = open(&dir, &["media"]).unwrap();
    // Nobody writes to the pipe, so opening it must not wait.
    for missing in ["/pipe", "/socket", "/.hidden.ts", "/.git/config", "/.git"] {
        assert_eq!(content(&library, missing), Err(FindError::NotFound), "{missing}");
    }
    assert_eq!(names(&library.list(&path("/")).unwrap()), ["sub/", "clip.ts"]);
}

#[test]
fn names_of_any_bytes() {
    let dir = tree();
    let media = dir.path().join("media");
    let long = "x".repeat(255);
    for name in ["a b", "fü.ts", "new\nline", "100%.ts", "%41", "a?b#c", "a\\b", "..a", long.as_str()] {
        fs::write(media.join(name), name).unwrap();
    }
    fs::write(media.join(OsStr::from_bytes(b"\xff\xfe")), "bytes").unwrap();
    let library = open(&dir, &["media"]).unwrap();
    for (target, expected) in [
        ("/a%20b", "a b"),
        ("/fü.ts", "fü.ts"),
        ("/f%C3%BC.ts", "fü.ts"),
        ("/new%0Aline", "new\nline"),
        ("/100%25.ts", "100%.ts"),
        ("/%2541", "%41"),
        ("/a%3Fb%23c", "a?b#c"),
        ("/a%5Cb", "a\\b"),
        ("/%ff%fe", "bytes"),
        (&format!("/{long}"), long.as_str()),
    ] {
        assert_eq!(content(&library, target).as_deref(), Ok(expected), "{target}");
    }
    // It begins with a dot.
    assert_eq!(content(&library, "/..a"), Err(FindError::NotFound));
    for missing in [format!("/{long}x"), format!("/{}", "sub/".repeat(4000)), "/a".repeat(2040)] {
        assert_eq!(content(&library, &missing), Err(FindError::NotFound));
    }
}

#[test]
fn identities_tell_files_apart() {
    let dir = tree();
    let library = open(&dir, &["media"]).unwrap();
    let found = || library.find_file(&path("/clip.ts")).unwrap();
    let before = found().version.identity;
    assert_eq!(found().version.identity, before);
    let file = dir.path().join("media/clip.ts");
    fs::File::open(&file).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(found().version.identity.mtime_ns, 0);
    fs::copy(&file, dir.path().join("media/new")).unwrap();
    fs::rename(dir.path().join("media/new"), &file).unwrap();
    assert_ne!(found().version.identity.inode, before.inode);
    let http = found().version.representation(b"clip.ts");
    assert_eq!((http.size, http.content_type), (4, "video/mp2t"));
}

#[test]
fn permissions_count() {
    let dir = tree();
    let file = dir.path().join("media/clip.ts");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    let library = open(&dir, &["media"]).unwrap();
    // Root reads everything.
    let expected = if rustix::process::geteuid().is_root() { Ok("clip") } else { Err(FindError::Forbidden) };
    assert_eq!(content(&library, "/clip.ts").as_deref().map_err(|&error| error), expected);
}

#[test]
fn a_large_folder_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    for index in 0..=LISTING_LIMIT {
        fs::write(dir.path().join(format!("{index}.ts")), "").unwrap();
    }
    let library = open(&dir, &["."]).unwrap();
    let listing = library.list(&path("/")).unwrap();
    assert_eq!((listing.entries.len(), listing.truncated), (LISTING_LIMIT, true));
    assert!(listing.entries.is_sorted());
    fs::remove_file(dir.path().join("0.ts")).unwrap();
    assert!(!library.list(&path("/")).unwrap().truncated);
}

#[test]
fn a_folder_is_held_open_until_another_library_finds_another_one() {
    let dir = tree();
    let before = open(&dir, &["media"]).unwrap();
    fs::rename(dir.path().join("media"), dir.path().join("old")).unwrap();
    let paths = [dir.path().join("media")];
    assert!(before.is_in_place(), "storage that is gone may come back");
    fs::create_dir(&paths[0]).unwrap();
    fs::write(paths[0].join("new.ts"), "new").unwrap();
    assert!(!before.is_in_place());
    assert_eq!(content(&before, "/sub/clip.ts").unwrap(), "sub clip");
    let after = Library::open_like(&paths, &before).unwrap();
    assert_eq!(content(&after, "/new.ts").unwrap(), "new");
    assert!(after.is_in_place() && !after.is_like(&before));
}

/// Promise: A reload serves another file of the same folder if a served symlink leads to it.
#[test]
fn a_served_link_to_another_file_is_followed_again() {
    let dir = tree();
    let link = dir.path().join("link.ts");
    symlink("media/clip.ts", &link).unwrap();
    let paths = [link.clone()];
    let before = Library::open(&paths).unwrap();
    assert!(before.is_in_place());
    assert_eq!(content(&before, "/link.ts").unwrap(), "clip");
    fs::remove_file(&link).unwrap();
    fs::write(dir.path().join("media/other.ts"), "other").unwrap();
    symlink("media/other.ts", &link).unwrap();
    assert!(!before.is_in_place());
    let after = Library::open_like(&paths, &before).unwrap();
    assert_eq!(content(&after, "/link.ts").unwrap(), "other");
    assert!(after.is_in_place() && !after.is_like(&before));
}

#[test]
fn a_library_takes_over_what_another_serves() {
    let dir = tree();
    fs::create_dir(dir.path().join("more")).unwrap();
    let paths = |names: &[&str]| names.iter().map(|name| dir.path().join(name)).collect::<Vec<_>>();
    let before = open(&dir, &["media", "more"]).unwrap();
    let after = Library::open_like(&paths(&["media", "secret.ts"]), &before).unwrap();
    assert_eq!(content(&after, "/media/sub/clip.ts").unwrap(), "sub clip");
    assert_eq!(content(&after, "/secret.ts").unwrap(), "secret");
    assert_eq!(names(&before.common(&after).list(&path("/")).unwrap()), ["media/"]);
    assert!(!before.is_like(&after) && after.is_like(&after.common(&after)));
    // Files that are kept open are those of the library with this number.
    let after = Arc::new(after);
    let same = Library::open_like(&paths(&["media", "secret.ts"]), &after).unwrap();
    assert_ne!(same.number(), after.number());
    assert_eq!(same.or_same(&after).number(), after.number());
    let other = Library::open_like(&paths(&["media"]), &after).unwrap();
    let number = other.number();
    assert_eq!(other.or_same(&after).number(), number);

    let around = before.around(&path("/media/sub/"));
    assert!(around.is_like(&after.around(&path("/media/"))));
    assert_eq!(content(&around, "/media/clip.ts").unwrap(), "clip");
    assert!(before.around(&path("/missing/clip.ts")).is_like(&Library::empty()));
    assert_eq!(after.moved_since(&before).count(), 0);

    let alone = Library::open_like(&paths(&["media"]), &before).unwrap();
    assert_eq!(content(&alone, "/clip.ts").unwrap(), "clip");
    assert_eq!(names(&before.common(&alone).list(&path("/")).unwrap()), [""; 0]);
    let moved: Vec<_> = alone.moved_since(&before).collect();
    assert_eq!(moved, [(dir.path().join("media").as_path(), "/media/".to_owned(), "/".to_owned())]);
}
