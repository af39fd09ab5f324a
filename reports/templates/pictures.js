// pictures.js: links inside a drawing open what they lead to, as links of the text do.

function pictureLinks() {
  for (const link of document.querySelectorAll('.picture svg a[href^="#node-"]')) {
    link.addEventListener("click", () => openTarget(link.getAttribute("href")));
  }
}

pictureLinks();
