// The theme's buttons are labels. Enter presses them once Tab leads there.
for (const label of document.querySelectorAll('.md-header__button[for], .md-nav__link[for], .md-nav__title[for]')) {
  label.tabIndex = 0;
  label.setAttribute('role', 'button');
}
